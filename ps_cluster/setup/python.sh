#!/bin/sh
# Runs its arguments with the Python that set-up is for: `sh ps_cluster/setup/python.sh -m ps_cluster.setup.env`.
# PYTHON names one; else the first of python3.11 and python3 that runs and is 3.11.
right='import sys; sys.exit(sys.version_info[:2] != (3, 11))'

if [ -n "${PYTHON:-}" ]; then
    "$PYTHON" -c "$right" 2>/dev/null && exec "$PYTHON" "$@"
    found=$("$PYTHON" --version 2>&1 | head -n 1)
    echo "ps-cluster needs Python 3.11: PYTHON=$PYTHON is ${found:-no Python}" >&2
    exit 1
fi
for candidate in python3.11 python3; do
    "$candidate" -c "$right" 2>/dev/null && exec "$candidate" "$@"
done
sudo=sudo
[ "$(id -u)" = 0 ] && sudo=
echo "ps-cluster needs Python 3.11:" $sudo "apt-get install python3.11 python3.11-venv," \
    "or set PYTHON=/path/to/one" >&2
exit 1

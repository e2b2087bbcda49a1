#!/bin/sh
# Stands in the place of a Python that cannot start.
echo "no python here" >&2
exit 7

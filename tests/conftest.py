"""Settings that must stand before TensorFlow is imported, in tests and in the processes they start."""

import os
import signal

from hypothesis import HealthCheck, settings

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

# Tests send these to processes they start. A runner in the background or under nohup has them ignored; they would too.
for signum in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(signum) == signal.SIG_IGN:
        signal.signal(signum, signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL)

# How long an example takes says how busy the machine is, nothing about the code.
settings.register_profile("no-clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no-clock")

pytest_plugins = ["tests.data.s3_server"]

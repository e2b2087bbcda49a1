"""Settings that must stand before TensorFlow is imported, in tests and in the processes they start."""

import os
import signal

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

# Tests send these to processes they start; a runner started in the background or by nohup has them ignored, and so would
# they.
for signum in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(signum) == signal.SIG_IGN:
        signal.signal(signum, signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL)

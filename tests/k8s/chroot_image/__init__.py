"""Builds the image of a Dockerfile in a Debian tree and runs commands in it, without a container engine."""

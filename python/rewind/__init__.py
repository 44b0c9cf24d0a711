"""Replayable runs of Nix builds."""

__version__ = "0.1.0"

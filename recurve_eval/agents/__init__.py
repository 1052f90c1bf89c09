"""Agents: whatever works in a workspace on a prompt and stops."""

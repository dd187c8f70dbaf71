"""detol: automated topology learning."""

"""Results that travel: out of a database into files, and into another one."""

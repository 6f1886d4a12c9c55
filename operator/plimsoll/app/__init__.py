"""The shell: Kopf watches, one loop plans, one executor writes. No decision is taken here."""

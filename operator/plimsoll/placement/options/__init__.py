"""Options: which GPU types and splits can serve a request, judged one by one."""

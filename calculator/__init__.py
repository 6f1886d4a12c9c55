"""The calculator as static files that any web server can serve. Python runs in the reader's browser.

It holds no second calculation: Pyodide, a kept library, runs the package's own modules, and the page is the console's.
Here is only what packs them.
"""

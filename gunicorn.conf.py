"""gunicorn's configuration.

gunicorn reads it automatically, so `gunicorn mhb_site.wsgi` always gets the worker class that
protects the site from slow clients.
"""

worker_class = "mhb_site.server.web_server.BufferingWorker"
threads = 8
loglevel = "warning"
control_socket_disable = True  # unused

"""gunicorn reads this by itself, so that `gunicorn mhb_site.wsgi` is never started without what slow clients need."""

worker_class = "mhb_site.server.web_server.BufferingWorker"
threads = 8
loglevel = "warning"
control_socket_disable = True  # nobody uses it

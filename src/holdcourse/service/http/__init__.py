"""The side of the service that knows HTTP: who is let in, what is read, and how answers and errors are said.

::

    app         the application: its parts put together
      routes      every address
        responses   every answer as a model
        stream      server-sent events
        files       the page, and copies of records
        metrics     figures for Prometheus
        openapi     the description of all these
      admission   what is let in: who sends a request, what his token allows, its body within its limits
      errors      which status and code each type of error has; who was turned away
    server      the web server under the application: connections and their bounds
"""

"""A test with a server that is faked, and workers that run until its end."""

import logging
import threading
import unittest

from tierq import Worker
from .fake import Fake


class Lines(logging.Handler):
    """Keeps the lines of a worker's log."""

    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        self.said.append(record.getMessage())


class WorkerCase(unittest.TestCase):
    def setUp(self):
        self.fake = Fake(self)
        self.lines = Lines()
        self.logger = logging.Logger("tierq-test")
        self.logger.addHandler(self.lines)

    def start(self, handlers, **options):
        """Runs a worker until the test ends; it returns a function that stops it at once."""
        worker = Worker(self.fake.url, ["pictures"], **{"logger": self.logger, **options})
        for type, fn in handlers.items():
            worker.handle(type, fn)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()

        def stop():
            worker.stop()
            thread.join(30)
            self.assertFalse(thread.is_alive())

        self.addCleanup(stop)
        return stop

    def said(self, *parts):
        """Waits for a line of the worker's log that has all these parts, and returns it."""
        found = []

        def look():
            found[:] = [line for line in self.lines.said if all(part in line for part in parts)]
            return found

        self.fake.until("a line with %s in %s" % (parts, self.lines.said), look)
        return found[0]

"""The job's secret goes to Python workers, and stands in nothing that another user could read. What a
rank does is defined within functions, so that it travels by value."""

import base64
import contextlib
import io
import json
import os
import pathlib
import re
import unittest
import urllib.parse
import urllib.request

from .cluster import SPARK, WORLD, session, work_folder


def looking():
    """What gives all that a secret may look like."""

    def looks(secret):
        raw = bytes.fromhex(secret)
        texts = [secret, secret.upper()]
        texts += [encode(raw).decode().rstrip("=") for encode in (base64.b64encode, base64.urlsafe_b64encode)]
        return [raw, *(text.encode() for text in texts)]

    return looks


def searching():
    """What a rank runs: the secret turned round, and where its processes show it as it is."""
    looks = looking()

    def processes():
        import inspect

        # The launch record is in a frame of what has called this function.
        launches = [frame.frame.f_locals.get("launch") for frame in inspect.stack()]
        secret = next(launch for launch in launches if launch is not None)["secret"]
        found, process = [], os.getpid()
        # This worker, what has forked it, and the executor.
        for _ in range(3):
            for name in ("cmdline", "environ"):
                content = pathlib.Path(f"/proc/{process}/{name}").read_bytes()
                if any(look in content for look in looks(secret)):
                    found.append(f"{name} of {process}")
            process = int(pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
        if any(look in repr(os.environ).encode() for look in looks(secret)):
            found.append("os.environ")
        return secret[::-1], found

    return processes


def function():
    """One for `rejoin.spark.run`."""
    search = searching()

    def rank(ranks):
        found = search()
        ranks.load()
        ranks.barrier()
        return found

    return rank


def callback():
    """One of XGBoost's, which prints what it finds."""
    from xgboost.callback import TrainingCallback

    search = searching()

    class Searches(TrainingCallback):
        def before_iteration(self, model, epoch, evals_log):
            if epoch == 3:
                import xgboost.collective

                xgboost.collective.communicator_print("found " + json.dumps(search()))
            return False

    return Searches()


class TheSecret(unittest.TestCase):
    def test_of_a_function_stands_in_no_environment_argument_setting_file_page_or_log(self):
        spark = session()
        import rejoin.spark

        self.check(spark, lambda: rejoin.spark.run(function(), num_proc=WORLD))

    def test_of_an_estimator_stands_in_no_environment_argument_setting_file_page_or_log(self):
        spark = session()
        import rejoin.spark
        from xgboost.spark import SparkXGBClassifier

        rows = spark.range(0, 600, 1, WORLD).selectExpr("CAST(id AS double) AS x", "id % 2 AS label")
        stock = SparkXGBClassifier(num_workers=WORLD, n_estimators=6, features_col=["x"], callbacks=[callback()])

        def fit():
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                rejoin.spark.RejoinEstimator(stock).fit(rows)
            return [json.loads(found) for found in re.findall(r"^\[rank \d\] found (.*)$", printed.getvalue(), re.M)]

        self.check(spark, fit)

    def check(self, spark, job):
        """The job returns for each rank what it has found."""
        spark.conf.set("spark.rejoin.log.level", "trace")
        try:
            results = job()
        finally:
            spark.conf.unset("spark.rejoin.log.level")
        self.assertEqual([found for _, found in results], [[]] * WORLD)
        secret = results[0][0][::-1]
        self.assertEqual(len(secret), 64)
        looks = looking()(secret)
        context = spark.sparkContext
        folders = [work_folder(), SPARK / "work" / context.applicationId]
        files = {str(path): content for folder in folders for path, content in contents(folder)}
        errors = [content for name, content in files.items() if name.endswith("/stderr")]
        self.assertTrue(any(b" TRACE rejoin: " in content for content in errors))
        self.assertTrue(any(b"SparkListenerJobStart" in content for content in files.values()))
        pages = crawl(context.uiWebUrl, context.applicationId)
        self.assertGreater(len(pages), 12, pages.keys())
        settings = {repr(context.getConf().getAll()): repr(context.getConf().getAll()).encode()}
        searched = {**files, **pages, **settings}
        self.assertEqual([name for name, content in searched.items() if any(look in content for look in looks)], [])
        planted = work_folder() / "planted"
        planted.write_text(f"this is {secret}")
        self.assertTrue(any(look in planted.read_bytes() for look in looks))
        planted.unlink()


def contents(folder):
    """What the files below a folder hold. Spark may take one away meanwhile, as of a shuffle that is over."""
    for place, _, names in os.walk(folder):  # which passes over folders that vanish
        for path in (pathlib.Path(place) / name for name in names):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    yield path, path.read_bytes()


def crawl(root, application):
    """All pages of the web interface that links lead to, and what Spark says by REST."""
    answers = ("", "/environment", "/jobs", "/stages?details=true", "/allexecutors", "/storage/rdd", "/sql")
    waiting = [root + "/", *(f"{root}/api/v1/applications/{application}{answer}" for answer in answers)]
    pages = {}
    while waiting and len(pages) < 200:
        page = waiting.pop(0)
        if page in pages:
            continue
        with urllib.request.urlopen(page, timeout=30) as answer:
            pages[page] = answer.read()
        for link in re.findall(r"href=[\"']([^\"'#]+)", pages[page].decode(errors="replace")):
            link = urllib.parse.urljoin(page, link.replace("&amp;", "&"))
            shows = not any(part in link for part in ("/kill", "/static/", "sort=", "pageSize="))
            if link.startswith(root + "/") and shows:
                waiting.append(link)
    return pages

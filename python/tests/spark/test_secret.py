"""The job's secret goes to Python workers, and stands in nothing that another user could read. What a
rank does is defined within functions, so that it travels by value."""

import base64
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


def search():
    """What a rank runs: where its processes show the secret, and the secret turned round."""
    looks = looking()

    def processes(ranks):
        import inspect

        # The launch record is in the frame of what has called this function.
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
        ranks.load()
        ranks.barrier()
        return secret[::-1], found

    return processes


class TheSecret(unittest.TestCase):
    def test_stands_in_no_environment_argument_setting_file_page_or_log(self):
        spark = session()
        import rejoin.spark

        spark.conf.set("spark.rejoin.log.level", "trace")
        try:
            results = rejoin.spark.run(search(), num_proc=WORLD)
        finally:
            spark.conf.unset("spark.rejoin.log.level")
        secret = results[0][0][::-1]
        self.assertEqual(len(secret), 64)
        self.assertEqual([found for _, found in results], [[]] * WORLD)
        looks = looking()(secret)
        context = spark.sparkContext
        folders = [work_folder(), SPARK / "work" / context.applicationId]
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        self.assertTrue(any(b" TRACE rejoin: " in path.read_bytes() for path in files if path.name == "stderr"))
        self.assertTrue(any(b"SparkListenerJobStart" in path.read_bytes() for path in files))
        pages = crawl(context.uiWebUrl, context.applicationId)
        self.assertGreater(len(pages), 12, pages.keys())
        settings = {repr(context.getConf().getAll()): repr(context.getConf().getAll()).encode()}
        searched = {**{str(path): path.read_bytes() for path in files}, **pages, **settings}
        self.assertEqual([name for name, content in searched.items() if any(look in content for look in looks)], [])
        planted = work_folder() / "planted"
        planted.write_text(f"this is {secret}")
        self.assertTrue(any(look in planted.read_bytes() for look in looks))
        planted.unlink()


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

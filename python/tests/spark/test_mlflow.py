"""MLflow's autolog around fits of a `RejoinEstimator`; scripts/python-spark.sh gets its package."""

import os
import sys
import tempfile

from .cluster import ROOT
from .test_estimator import OnACluster, dying


class Autologged(OnACluster):
    @classmethod
    def setUpClass(cls):
        # Before the machine's own packages, some of which are too old for it.
        sys.path.insert(0, str(ROOT / "build/python/mlflow"))
        super().setUpClass()
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # a database would need more packages
        import mlflow.pyspark.ml

        cls.mlflow = mlflow

    def logged(self, fit):
        """What a fit logs, in a run of its own."""
        mlflow = self.mlflow
        with tempfile.TemporaryDirectory() as folder:
            mlflow.set_tracking_uri(f"file:{folder}")
            mlflow.set_experiment("fits")
            mlflow.pyspark.ml.autolog()
            try:
                with mlflow.start_run() as run:
                    fit()
                return mlflow.get_run(run.info.run_id).data
            finally:
                mlflow.pyspark.ml.autolog(disable=True)

    def test_a_fit_logs_the_parameters_that_the_stock_one_logs_though_a_worker_dies(self):
        def logged(callbacks, wrapped):
            stock = self.estimator("SparkXGBClassifier", callbacks=callbacks)
            estimator = self.rejoin.spark.RejoinEstimator(stock) if wrapped else stock
            return self.logged(lambda: estimator.fit(self.rows))

        theirs, ours = logged([], False), logged([dying("worker", 11)], True)
        self.assertEqual(ours.params["n_estimators"], "12")
        self.assertEqual(
            {name: value for name, value in ours.params.items() if name != "callbacks"},
            {name: value for name, value in theirs.params.items() if name != "callbacks"},
        )
        self.assertEqual(ours.tags["estimator_name"], "RejoinEstimator")

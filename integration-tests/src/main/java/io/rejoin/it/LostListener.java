package io.rejoin.it;

import io.rejoin.JobId;
import io.rejoin.TrainingEvent;
import io.rejoin.spark.RejoinListener;

/** A listener of an application's own: says which ranks are lost. */
public final class LostListener implements RejoinListener {
  @Override
  public void onEvent(JobId job, TrainingEvent event) {
    if (event.kind() == TrainingEvent.Kind.RANK_LOST) {
      FitDriver.report("LostListener has seen rank " + event.number("rank") + " lost");
    }
  }
}

package io.rejoin.spark;

import io.rejoin.JobId;
import io.rejoin.TrainingEvent;

/**
 * Gets the events of all fits of a session or an application, on the driver: for alerts. The
 * setting {@code spark.rejoin.listeners} names the classes, which are on the driver's class path
 * and public, with a public constructor without parameters.
 *
 * <p>Each fit makes a listener of its own of each class, before it does any work. One that throws
 * is heard of in the driver's log and gets the next event all the same. A slow one holds up neither
 * the training nor other listeners: at its end the fit waits for it, for 5 s at most, and it loses
 * events while 10,000 wait for it.
 */
public interface RejoinListener {
  /**
   * Gets the next event of a job, in order, on a thread of Rejoin's own.
   *
   * @param job a fit has another one when it begins again because its input was lost
   */
  void onEvent(JobId job, TrainingEvent event);
}

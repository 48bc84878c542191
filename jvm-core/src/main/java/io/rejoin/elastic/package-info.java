/**
 * Trainings whose world may change, in the form of Horovod's {@code hvd.elastic}: a state that is
 * committed, a program that is called again when ranks come or go, and a sampler that deals each
 * sample out once whatever the world is.
 */
package io.rejoin.elastic;

/**
 * Trainers that are ready to use: each implements {@link io.rejoin.flink.TrainerFunction} over
 * {@link io.rejoin.flink.trainers.LabeledRow}s.
 *
 * <p>What holds for all of them:
 *
 * <ul>
 *   <li>A version is one update by its <em>global</em> batch: the rows that all ranks have in that
 *       version. How these rows are divided among the ranks decides about nothing but the order in
 *       which they are added up, and so about the last bits.
 *   <li>A batch whose rows have no weight together (as where no rank has a row) leaves the model as
 *       it is, to the last bit.
 *   <li>A rank that trains again, on whatever machine, computes the same bytes.
 *   <li>A row that would spoil the model ends the job with TRAINING_FAILED before any rank has
 *       learned of it: the error names rank, version and row. So does a model that isn't finite any
 *       more.
 * </ul>
 */
package io.rejoin.flink.trainers;

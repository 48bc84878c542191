package io.rejoin.spark;

/** What the ranks of a gang read. */
interface RankInputs<T> {
  /** What this rank reads in a world that never changes. */
  RankInput<T> of(int rank);

  /** What this rank reads in a world of so many. */
  RankInput<T> of(int rank, int world);
}

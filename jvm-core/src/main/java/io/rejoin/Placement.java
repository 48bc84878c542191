package io.rejoin;

/**
 * Where a rank is: the numbers that MPI programs and Horovod's know. Ranks are numbered within a
 * host and across hosts in the order of the ranks of the world.
 */
public final class Placement {
  private final int localRank;
  private final int localSize;
  private final int crossRank;
  private final int crossSize;

  Placement(int localRank, int localSize, int crossRank, int crossSize) {
    this.localRank = localRank;
    this.localSize = localSize;
    this.crossRank = crossRank;
    this.crossSize = crossSize;
  }

  /** The number of the rank among those of its host, from 0. */
  public int localRank() {
    return localRank;
  }

  /** How many ranks its host has. */
  public int localSize() {
    return localSize;
  }

  /** The number of the rank among those that have its local rank, one a host. */
  public int crossRank() {
    return crossRank;
  }

  /** How many hosts have a rank with its local rank. */
  public int crossSize() {
    return crossSize;
  }

  @Override
  public String toString() {
    return "local rank "
        + localRank
        + " of "
        + localSize
        + ", cross rank "
        + crossRank
        + " of "
        + crossSize;
  }
}

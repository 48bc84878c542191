package io.rejoin.it;

import java.util.ArrayList;
import java.util.List;

/**
 * Which cells of a table are tried when there is no time for all: in every repetition a few of each
 * row, spread evenly over the columns, and others in the next one, until all were tried.
 *
 * @param columns of the table
 * @param perRow cells of each row that one repetition tries; all of them if it is {@code columns}
 * @param shift where the first repetition begins, for instance a seed; any number
 */
record CoveringDesign(int columns, int perRow, long shift) {
  CoveringDesign {
    if (perRow < 1 || perRow > columns) {
      throw new IllegalArgumentException("expected 1 to " + columns + " per row, not " + perRow);
    }
  }

  /** The columns of this row that this repetition tries, ascending. */
  List<Integer> columnsOf(int row, int repetition) {
    List<Integer> taken = new ArrayList<>();
    for (int column = 0; column < columns; column++) {
      // A repetition goes on where the one before ended; each row begins one column further on.
      long place = column - row - shift - (long) repetition * perRow;
      if (Math.floorMod(place, (long) columns) < perRow) {
        taken.add(column);
      }
    }
    return taken;
  }

  /** After so many repetitions every cell was tried. */
  int repetitionsForAll() {
    return (columns + perRow - 1) / perRow;
  }
}

package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.stream.Collectors;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource.NumberSequenceSplit;
import org.junit.jupiter.api.Test;

class OwnersTest {
  private static final int READERS = 3;

  private static void draw(Owners<NumberSequenceSplit> owners, String... ids) {
    for (String id : ids) {
      owners.drawn(new NumberSequenceSplit(id, 1, 9));
    }
    owners.deal();
  }

  private static List<List<String>> waiting(Owners<NumberSequenceSplit> owners) {
    return owners.waiting().stream()
        .map(all -> all.stream().map(NumberedSplit::splitId).collect(Collectors.toList()))
        .collect(Collectors.toList());
  }

  @Test
  void while_a_source_may_find_more_a_splits_owner_follows_from_its_id_whenever_it_is_found() {
    Owners<NumberSequenceSplit> atOnce = new Owners<>(READERS);
    draw(atOnce, "b", "a", "e", "c", "d");
    Owners<NumberSequenceSplit> byAndBy = new Owners<>(READERS);
    draw(byAndBy, "e");
    draw(byAndBy, "d", "a");
    draw(byAndBy, "c", "b");
    assertEquals(List.of(List.of("c"), List.of("a", "d"), List.of("b", "e")), waiting(atOnce));
    assertEquals(waiting(atOnce), waiting(byAndBy));
  }

  @Test
  void all_splits_of_a_source_are_dealt_in_turn_by_their_ids() {
    Owners<NumberSequenceSplit> owners = new Owners<>(READERS);
    for (int reader = 0; reader < READERS; reader++) {
      owners.last(reader);
    }
    draw(owners, "d", "b", "a", "e", "c");
    assertEquals(List.of(List.of("a", "d"), List.of("b", "e"), List.of("c")), waiting(owners));
  }
}

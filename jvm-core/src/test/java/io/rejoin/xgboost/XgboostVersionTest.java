package io.rejoin.xgboost;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import ml.dmlc.xgboost4j.java.Booster;
import org.junit.jupiter.api.Test;

class XgboostVersionTest {
  @Test
  void the_wire_follows_the_version() {
    assertEquals("until-3.2", XgboostVersion.of("3.0.4").wire());
    assertEquals("until-3.2", XgboostVersion.of("3.1.1").wire());
    assertEquals("until-3.2", XgboostVersion.of("3.2.0").wire());
    assertEquals("from-3.3", XgboostVersion.of("3.3.0", "3.3.0").wire());
    assertEquals("from-3.3", XgboostVersion.of("3.4.0").wire());
  }

  @Test
  void another_version_is_refused_by_name_with_those_that_are_supported() {
    for (String version : new String[] {"2.1.4", "2.9.0", "3.5.0", "4.0.0", "", "three"}) {
      RejoinException failure =
          assertThrows(RejoinException.class, () -> XgboostVersion.of(version));
      assertEquals(RejoinException.Code.INCOMPATIBLE, failure.code());
      assertTrue(
          failure.text().contains("\"" + version + "\"") && failure.text().contains("3.4"),
          failure.text());
    }
  }

  @Test
  void a_patch_that_was_never_tried_is_refused_with_how_to_try_it() {
    for (String version : new String[] {"3.0.1", "3.1.2", "3.2.1", "3.4.1", "3.5.0"}) {
      RejoinException failure =
          assertThrows(RejoinException.class, () -> XgboostVersion.of(version, "3.4.2"));
      assertEquals(RejoinException.Code.INCOMPATIBLE, failure.code());
      assertTrue(
          failure.text().contains("make smoke XGBOOST=" + version)
              && failure.text().contains("-Drejoin.xgboost.untested=" + version),
          failure.text());
    }
  }

  @Test
  void a_release_that_is_named_as_untested_is_let_in_and_no_other_major_version() {
    assertEquals("from-3.3", XgboostVersion.of("3.5.0", "3.5.0").wire());
    assertEquals("until-3.2", XgboostVersion.of("3.1.2", "3.1.2").wire());
    for (String version : new String[] {"2.1.4", "4.0.0", "3.5", "3.5.0-rc1", ""}) {
      RejoinException failure =
          assertThrows(RejoinException.class, () -> XgboostVersion.of(version, version));
      assertFalse(failure.text().contains("make smoke"), failure.text());
    }
  }

  @Test
  void the_document_has_a_row_for_each_version_that_is_supported_and_none_other() throws Exception {
    Path document = Path.of(System.getProperty("rejoin.test.root"), "docs", "xgboost.md");
    List<String> rows =
        Files.readAllLines(document).stream()
            .filter(line -> line.matches("\\| 3\\.\\d+\\.\\d+ \\|.*"))
            .map(line -> line.split(" ")[1])
            .collect(Collectors.toList());
    RejoinException failure =
        assertThrows(RejoinException.class, () -> XgboostVersion.of("2.1.4", ""));
    assertTrue(failure.text().contains(rows.toString()), rows + "; " + failure.text());
  }

  @Test
  void the_version_on_the_class_path_is_found_and_has_what_is_needed() {
    XgboostVersion loaded = XgboostVersion.loaded();
    assertEquals("3.4.0", loaded.toString());
    assertDoesNotThrow(() -> XgboostMembers.check(loaded));
  }

  @Test
  void a_missing_member_is_named() {
    RejoinException failure =
        assertThrows(
            RejoinException.class, () -> XgboostVersion.of("3.4.0").need(Booster.class, "sing"));
    assertTrue(failure.text().contains("Booster.sing"), failure.text());
  }

  @Test
  void seeds_are_always_per_iteration_and_terms_know_the_parameters() {
    CheckpointRhythm rhythm = CheckpointRhythm.of(XgboostVersion.of("3.4.0"), 0, 0);
    Map<String, Object> off =
        new HashMap<>(Collections.singletonMap("seed_per_iteration", "false"));
    assertEquals(
        "true", new TrainingSpec(2, 10, off, rhythm).parameters().get("seed_per_iteration"));

    String terms =
        new TrainingSpec(2, 10, Collections.singletonMap("eta", "0.1"), rhythm)
            .terms(XgboostVersion.of("3.4.0"));
    String other =
        new TrainingSpec(2, 10, Collections.singletonMap("eta", "0.2"), rhythm)
            .terms(XgboostVersion.of("3.4.0"));
    assertFalse(terms.equals(other));
  }

  @Test
  void parameters_with_which_no_training_goes_on_from_a_checkpoint_are_refused_by_name() {
    assertDoesNotThrow(
        () -> TrainingSpec.check(2, Collections.singletonMap("lambdarank_unbiased", "false")));
    assertRefused(2, "lambdarank_unbiased", "true", "lambdarank_unbiased is true");
  }

  @Test
  void gblinear_is_refused_for_more_than_one_rank() {
    assertDoesNotThrow(() -> TrainingSpec.check(1, Map.of("booster", "gblinear")));
    assertDoesNotThrow(() -> TrainingSpec.check(2, Map.of("booster", "dart")));
    assertRefused(2, "booster", "gblinear", "booster is \"gblinear\"", "each of 2 ranks");
  }

  @Test
  void several_metrics_are_refused_with_what_to_do() {
    assertDoesNotThrow(() -> TrainingSpec.check(2, Map.of("eval_metric", "auc")));
    String expected = "give one metric as a text";
    assertRefused(1, "eval_metric", List.of("auc", "logloss"), "eval_metric", expected);
    assertRefused(1, "eval_metric", new String[] {"auc"}, "eval_metric", expected);
  }

  @Test
  void a_parameter_that_is_null_is_refused_by_name() {
    assertRefused(1, "max_depth", null, "max_depth is null", "leave it out");
  }

  private static void assertRefused(int world, String name, Object value, String... said) {
    RejoinException failure =
        assertThrows(
            RejoinException.class,
            () -> TrainingSpec.check(world, Collections.singletonMap(name, value)));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    for (String text : said) {
      assertTrue(failure.text().contains(text), failure.text());
    }
  }

  @Test
  void only_a_matrix_that_is_sketched_lazily_is_warmed_up() {
    assertTrue(sketches("tree_method", "hist"));
    assertTrue(sketches("booster", "dart"));
    assertTrue(sketches("eta", "0.1"));
    assertTrue(sketches("tree_method", "approx"));
    assertFalse(sketches("tree_method", "exact"));
    assertFalse(sketches("booster", "gblinear"));
  }

  private static boolean sketches(String key, String value) {
    CheckpointRhythm rhythm = CheckpointRhythm.of(XgboostVersion.of("3.4.0"), 0, 0);
    return new TrainingSpec(1, 1, Collections.singletonMap(key, value), rhythm).sketchesLazily();
  }
}

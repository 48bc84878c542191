package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.typeutils.PojoTypeInfo;
import org.junit.jupiter.api.Test;

class TrainedModelTest {
  @Test
  void flink_serializes_a_trained_model_as_a_pojo_and_not_by_kryo() {
    assertInstanceOf(PojoTypeInfo.class, TypeInformation.of(TrainedModel.class));
  }

  @Test
  void a_model_names_its_version_and_job() {
    assertEquals(
        "version 3 (last) of job ab", new TrainedModel("ab", 3, true, new byte[0]).toString());
  }
}

package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Row;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What operators of event time see of the last models, in one process. */
@Timeout(120)
class EndOfTimeTest {
  private static final String MODEL = "a model";
  private static final String END = "the end of event time";
  private static final List<String> SEEN = Collections.synchronizedList(new ArrayList<>());

  private static final class Watching<M> extends AbstractStreamOperator<M>
      implements OneInputStreamOperator<M, M> {
    private static final long serialVersionUID = 1L;

    @Override
    public void processElement(StreamRecord<M> model) {
      SEEN.add(MODEL);
    }

    @Override
    public void processWatermark(Watermark mark) throws Exception {
      SEEN.add(mark.getTimestamp() == Long.MAX_VALUE ? END : "a watermark");
      super.processWatermark(mark);
    }
  }

  @BeforeEach
  void forget() {
    SEEN.clear();
  }

  private static DataStream<Long> rows(String... settings) {
    Configuration configuration = LocalJob.settings(1_000, 0);
    for (int i = 0; i < settings.length; i += 2) {
      configuration.setString(settings[i], settings[i + 1]);
    }
    return StreamExecutionEnvironment.createLocalEnvironment(1, configuration)
        .fromSource(
            new NumberSequenceSource(1, 10), WatermarkStrategy.noWatermarks(), "rows", Types.LONG);
  }

  private static <M> void watch(SingleOutputStreamOperator<M> models, Class<M> type)
      throws Exception {
    models
        .transform("watch", TypeInformation.of(type), new Watching<M>())
        .sinkTo(new DiscardingSink<>());
    models.getExecutionEnvironment().execute();
  }

  @Test
  void the_last_model_comes_before_the_end_of_event_time() throws Exception {
    String never = "1000000";
    watch(Rejoin.train(rows("rejoin.emit.versions", never), new Checksum()), TrainedModel.class);
    assertEquals(List.of(MODEL, END), SEEN);
  }

  @Test
  void the_last_model_of_a_rank_in_a_task_of_its_own_does_too() throws Exception {
    String[] settings = {
      "rejoin.emit.versions", "1000000",
      "rejoin.slot-sharing-group", "ranks",
      "taskmanager.numberOfTaskSlots", "2"
    };
    watch(Rejoin.train(rows(settings), new Checksum()), TrainedModel.class);
    assertEquals(List.of(MODEL, END), SEEN);
  }

  @Test
  void the_model_of_xgboost_comes_before_the_end_of_event_time() throws Exception {
    DataStream<Row> named =
        rows()
            .map(number -> Row.of(number % 3, number % 2))
            .returns(Types.ROW_NAMED(new String[] {"x", "y"}, Types.LONG, Types.LONG));
    watch(
        new RejoinXGBoost(Map.of("objective", "reg:squarederror"), 2)
            .features("x")
            .label("y")
            .train(named),
        XgboostModel.class);
    assertEquals(List.of(MODEL, END), SEEN);
  }
}

package io.rejoin.flink;

import io.rejoin.settings.SettingValues;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.types.Row;

/** Gives a stream of rows XGBoost. */
final class XgboostOperatorFactory extends RankOperatorFactory<Row, XgboostModel> {
  private static final long serialVersionUID = 1L;

  private final XgboostSpec spec;
  private boolean inOrder;

  XgboostOperatorFactory(XgboostSpec spec, SettingValues settings) {
    // The ranks' checkpoints have rows, and no model.
    super(settings, true);
    this.spec = spec;
  }

  /** Whether each subtask gets its rows in the same order whenever they are read. */
  void inOrder(boolean is) {
    inOrder = is;
  }

  @Override
  RankOperator<Row, XgboostModel> operator(StreamOperatorParameters<XgboostModel> parameters) {
    return new XgboostOperator(parameters, spec, inOrder, settings());
  }

  @Override
  @SuppressWarnings("rawtypes") // Flink's signature
  public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
    return XgboostOperator.class;
  }
}

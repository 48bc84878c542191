package io.rejoin.spark;

import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import ml.dmlc.xgboost4j.scala.spark.TrackerConf;

/** What the stock estimator says of its own tracker: where it is set, it counts for ours. */
final class StockTracker {
  private final TrackerConf stock;

  StockTracker(TrackerConf stock) {
    this.stock = stock;
  }

  /** The surroundings with the stock tracker's host, and the names of its timeout and its port. */
  Surroundings host(Surroundings surroundings) {
    Surroundings named =
        stock.timeout() > 0 ? surroundings.membersSetting("rabitTrackerTimeout") : surroundings;
    named = stock.port() > 0 ? named.portsSetting("rabitTrackerPort") : named;
    boolean isSet = stock.hostIp() != null && !stock.hostIp().isEmpty();
    return isSet ? named.trackerHost(stock.hostIp()) : named;
  }

  /** The settings with the stock tracker's port and timeout. */
  SettingValues over(SettingValues settings) {
    int port = stock.port();
    int seconds = stock.timeout();
    SettingValues values = settings;
    if (port > 0) {
      values = values.with(CommonSettings.TRACKER_PORTS, port + "-" + port);
    }
    return seconds > 0 ? values.with(CommonSettings.MEMBERS_TIMEOUT, seconds + "s") : values;
  }
}

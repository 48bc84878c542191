/**
 * Training in Flink jobs in lock step: when a TaskManager dies, Flink restarts its subtasks alone,
 * they rejoin, and the same model comes out ({@link io.rejoin.flink.Rejoin}).
 */
package io.rejoin.flink;

package io.rejoin;

import java.util.Optional;

/** Whether the framework wants a task to end. Asked often, from another thread. */
@FunctionalInterface
public interface CancelSignal {
  /** Why the task should end; empty while it should go on. */
  Optional<String> cancelled();
}

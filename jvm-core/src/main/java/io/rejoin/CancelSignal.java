package io.rejoin;

import java.util.Optional;

/** How the framework tells a task that it should end. Asked often, from another thread. */
@FunctionalInterface
public interface CancelSignal {
  /** Why the task should end; empty while it should go on. */
  Optional<String> cancelled();
}

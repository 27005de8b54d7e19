import { FailureLog } from "../../lib/failure-log.ts";
import { everySecond } from "../../lib/pulse.ts";
import type { OperatorReport, Publisher, SourceProblem } from "../../store/store.ts";

/**
 * Publishes the operator's heartbeat once a second. A failed write is tried again, and logged once: readers use the
 * heartbeat's age. `beat` publishes out of turn.
 */
export async function startHeartbeat(options: {
  publisher: Publisher;
  read: () => OperatorReport;
  onFailing: (error: unknown) => void;
  onEnd: () => void;
  /** Calls a task again and again; absent: once a second. */
  every?: typeof everySecond;
}): Promise<AsyncDisposable & { beat(): Promise<void> }> {
  const failureLog = new FailureLog(options);
  // Never rejects: an operator that cannot publish its heartbeat still keeps its engines.
  const beat = async (): Promise<void> => {
    try {
      await options.publisher.writeOperator(options.read());
      failureLog.succeeded();
    } catch (error) {
      failureLog.failed(error);
    }
  };
  await beat();
  let running: Promise<void> = Promise.resolve();
  let isBusy = false;
  const beats = (options.every ?? everySecond)(() => {
    if (isBusy) return;
    isBusy = true;
    running = beat().finally(() => {
      isBusy = false;
    });
  });
  return {
    beat,
    async [Symbol.asyncDispose]() {
      beats[Symbol.dispose]();
      await running;
    },
  };
}

/** Without the places that only the log has. */
export function publishedProblems(problems: readonly SourceProblem[]): OperatorReport["problems"] {
  return problems.map(({ reason, message, file }) => ({ reason, message, ...(file === undefined ? {} : { file }) }));
}

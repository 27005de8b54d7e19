import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { ApiError } from "../../api/errors.ts";
import type { ModelTask, ModelTaskAnswer } from "../../api/model-task.ts";
import { managementFailure } from "../http/disk-failure.ts";
import type { ManagementContext } from "./context.ts";
import { waitUntil, watchOperator } from "./wait.ts";

/** A directory on a slow disk takes long to read. */
const timeoutMs = 60_000;

type Wanted<Task extends ModelTask = ModelTask> = Task extends ModelTask
  ? Omit<Task, "schema" | "id" | "requestedAt">
  : never;

/**
 * Asks the operator, which alone changes files of models, and waits for its answer while it lives. Undefined where none
 * came: a task that `mayWait` is done by the operator later, any other is withdrawn. Throws ApiError, also for a task that
 * failed.
 */
export async function askOperator(
  context: Pick<ManagementContext, "modelTasks" | "modelAnswers" | "operatorLiveness" | "stopping">,
  wanted: Wanted,
  client: Pick<IncomingMessage, "socket">,
  mayWait: boolean,
): Promise<ModelTaskAnswer | undefined> {
  const { modelTasks, modelAnswers, operatorLiveness, stopping } = context;
  const isLive = operatorLiveness() === "live";
  if (!isLive && !mayWait) throw noOperator();
  const id = randomUUID();
  await modelTasks.put({ ...wanted, schema: 1, id, requestedAt: new Date().toISOString() }).catch((error: unknown) => {
    throw managementFailure(error, "ask the operator");
  });
  if (!isLive) return undefined;
  const watch = watchOperator((onChange) => modelAnswers.watch(onChange));
  const isOver = (): boolean => modelAnswers.get(id) !== undefined || operatorLiveness() !== "live";
  await waitUntil(isOver, { watch, timeoutMs, client, stopping });
  const found = modelAnswers.get(id);
  if (found === undefined && mayWait) return undefined;
  await modelTasks.remove(id);
  await modelAnswers.remove(id);
  if (found === undefined) throw noOperator();
  if (found.error === undefined) return found;
  const { error: message, reason } = found;
  if (reason === undefined) throw new ApiError("dispatch.invalid_request", { status: 409, message });
  throw new ApiError(reason === "SourceNotFound" ? "model.not_found" : "model.pull_failed", { message });
}

function noOperator(): ApiError {
  return new ApiError("system.overloaded", {
    message: "no operator has answered: see `berth status`",
    headers: { "retry-after": "5" },
  });
}

import { ApiError } from "../../../api/errors.ts";
import { isRecord } from "../../../lib/record.ts";
import { withoutPaths } from "../../../lib/without-paths.ts";
import { engineWords } from "../../relay/engine-failure.ts";
import { jsonOf, type EngineAnswer } from "./engine-http.ts";

/** An image that ComfyUI has made and offers at `/view`. */
export interface OutputImage {
  readonly filename: string;
  readonly subfolder: string;
  readonly type: string;
}

/** The id of an accepted prompt. Throws the client's error for a refusal. */
export function readAccepted(answer: EngineAnswer): string {
  const parsed = jsonOf(answer);
  if (answer.status === 200 && isRecord(parsed) && typeof parsed["prompt_id"] === "string") return parsed["prompt_id"];
  if (answer.status === 400 && isRecord(parsed)) throw refusal(parsed);
  const failure = failed(
    answer.status === 200 ? "the image engine answered with garbage" : `the image engine answered ${answer.status}`,
  );
  failure.engineText = engineWords(answer.status, answer.body);
  throw failure;
}

/**
 * The result of `/history/{id}`: the images once they are made, undefined while the prompt is not listed. Throws
 * ApiError `dispatch.upstream_failed` with the engine's cause.
 */
export function readHistory(answer: EngineAnswer, id: string): readonly OutputImage[] | undefined {
  const parsed = jsonOf(answer);
  if (answer.status !== 200 || !isRecord(parsed)) throw failed("the image engine's history is no JSON object");
  const entry = parsed[id];
  if (entry === undefined) return undefined;
  if (!isRecord(entry)) throw failed("the image engine's history has an unknown shape");
  const status = isRecord(entry["status"]) ? entry["status"] : {};
  if (status["status_str"] === "error") throw executionFailure(status["messages"]);
  const outputs = isRecord(entry["outputs"]) ? Object.values(entry["outputs"]) : [];
  const images = outputs.flatMap((output) =>
    isRecord(output) && Array.isArray(output["images"]) ? output["images"] : [],
  );
  return images.flatMap((image: unknown) => {
    if (!isRecord(image) || typeof image["filename"] !== "string") return [];
    const { filename, subfolder, type } = image;
    return [{ filename, subfolder: word(subfolder) ?? "", type: word(type) ?? "output" }];
  });
}

/** Whether the prompt waits or runs, by `/queue`. An entry is `[number, id, …]`. */
export function readQueue(answer: EngineAnswer, id: string): "running" | "pending" | undefined {
  const parsed = jsonOf(answer);
  if (!isRecord(parsed)) return undefined;
  const holds = (list: unknown): boolean =>
    Array.isArray(list) && list.some((entry: unknown) => Array.isArray(entry) && entry[1] === id);
  if (holds(parsed["queue_running"])) return "running";
  return holds(parsed["queue_pending"]) ? "pending" : undefined;
}

function failed(message: string, details?: Record<string, unknown>): ApiError {
  return new ApiError("dispatch.upstream_failed", { message, ...(details && { details }) });
}

/** ComfyUI checks a graph before it queues it: `error`, and `node_errors` by node. */
function refusal(body: Record<string, unknown>): ApiError {
  const nodes = isRecord(body["node_errors"]) ? Object.values(body["node_errors"]).filter(isRecord) : [];
  const problems = nodes.flatMap((node) => {
    const errors = Array.isArray(node["errors"]) ? node["errors"].filter(isRecord) : [];
    return errors.map((error) => ({
      node: word(node["class_type"]) ?? "unknown",
      type: word(error["type"]) ?? "unknown",
      message: [word(error["message"]), word(error["details"])].filter(Boolean).join(": ").slice(0, 500),
    }));
  });
  const missing = problems.find(({ type, message }) => type === "value_not_in_list" && message.includes("ckpt_name"));
  if (missing !== undefined) {
    const file = /ckpt_name: '([^']{1,200})'/.exec(missing.message)?.[1] ?? "it names";
    return new ApiError("model.not_loaded", {
      message: `the image engine has no checkpoint ${file}: put the file into its models/checkpoints`,
      details: { checkpoint: file, slots: ["img"] },
    });
  }
  const inner = body["error"];
  const summary = word(isRecord(inner) ? inner["message"] : inner) ?? "the image engine refused the workflow";
  const first = problems[0];
  return new ApiError("dispatch.rejected", {
    message: first === undefined ? summary : `${summary}: ${first.node}: ${first.message}`,
    details: { nodes: problems },
  });
}

/** `messages` is a list of `[event, data]`; the one that ended the run has the cause. */
function executionFailure(messages: unknown): ApiError {
  const events: readonly unknown[] = Array.isArray(messages) ? messages : [];
  for (const event of events) {
    if (!Array.isArray(event)) continue;
    const [name, data]: readonly unknown[] = event;
    if (name === "execution_interrupted") return failed("somebody interrupted the image engine");
    if (name !== "execution_error" || !isRecord(data)) continue;
    const node = word(data["node_type"]) ?? "unknown";
    const message = withoutPaths(word(data["exception_message"]) ?? "it gave no reason")
      .trim()
      .slice(0, 500);
    return failed(`the image engine failed in ${node}: ${message}`, {
      node,
      exception: word(data["exception_type"]) ?? null,
      message,
    });
  }
  return failed("the image engine failed and gave no reason");
}

function word(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

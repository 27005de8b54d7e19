import { randomUUID } from "node:crypto";
import type { ChatUsage } from "./chat-format.ts";
import type { ApiError } from "../../api/errors.ts";
import { definedFields } from "../../lib/record.ts";
import type { ResponsesRequest } from "./responses-format.ts";
import { encodeRequest } from "./json.ts";
import { callableTools, type ClientTool } from "./responses-tools.ts";

/** The repeated part of a request stays in memory as long as its answer: a larger part is left out. */
const echoLimit = 32_768;

/** How an item ends, and the answer. */
export type Ending = "completed" | "incomplete";
type Status = Ending | "in_progress";

/** The object in every whole answer, and in the first and last events of a stream. */
export class ResponseShell {
  readonly id = `resp_${newId()}`;
  readonly #createdAt = Math.floor(Date.now() / 1000);
  #request: object = {};

  /** Throws ApiError `dispatch.invalid_request` for a value that is nested too deeply to be repeated. */
  expect(request: ResponsesRequest): void {
    this.#request = { ...settingsOf(request), ...echoOf(request) };
  }

  begun(): object {
    return this.#body("in_progress", { output: [], usage: null });
  }

  ended(finish: string | null | undefined, output: readonly object[], usage: ChatUsage | null | undefined): object {
    const reason = cutBy(finish);
    const incomplete = reason === undefined ? null : { reason };
    const completed = reason === undefined ? { completed_at: Math.floor(Date.now() / 1000) } : {};
    return this.#body(statusOf(finish), {
      ...completed,
      incomplete_details: incomplete,
      output,
      usage: usageOf(usage),
    });
  }

  failed({ code, message }: ApiError, output: readonly object[]): object {
    return this.#body("failed", { error: { code, message }, output, usage: null });
  }

  #body(status: string, fields: object): object {
    return {
      id: this.id,
      object: "response",
      created_at: this.#createdAt,
      status,
      background: false,
      error: null,
      incomplete_details: null,
      ...this.#request,
      ...fields,
    };
  }
}

function settingsOf(request: ResponsesRequest): object {
  return {
    model: request.model,
    max_output_tokens: request.max_output_tokens ?? null,
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: null,
    reasoning: { effort: request.reasoning?.effort ?? null, summary: null },
    store: false,
    temperature: request.temperature ?? null,
    top_p: request.top_p ?? null,
    truncation: "disabled",
  };
}

function echoOf({ instructions, metadata, text, tool_choice: choice, tools }: ResponsesRequest): object {
  const plain = {
    instructions: null,
    metadata: {},
    text: { format: { type: "text" } },
    tool_choice: "auto",
    tools: [],
  };
  const echoed = {
    instructions: instructions ?? plain.instructions,
    metadata: metadata ?? plain.metadata,
    text: { ...text, format: text?.format ?? plain.text.format },
    tool_choice: choice ?? plain.tool_choice,
    tools: callableTools(tools ?? plain.tools),
  };
  return encodeRequest(echoed).length > echoLimit ? plain : echoed;
}

/** Why an answer was cut; undefined for a complete one. */
function cutBy(finish: string | null | undefined): string | undefined {
  if (finish === "length") return "max_output_tokens";
  return finish === "content_filter" ? "content_filter" : undefined;
}

/** The status of an answer, and of its last item. */
export function statusOf(finish: string | null | undefined): Ending {
  return cutBy(finish) === undefined ? "completed" : "incomplete";
}

export function usageOf(usage: ChatUsage | null | undefined): object {
  const [input, output] = [usage?.prompt_tokens ?? 0, usage?.completion_tokens ?? 0];
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: usage?.prompt_tokens_details?.cached_tokens ?? 0 },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: usage?.completion_tokens_details?.reasoning_tokens ?? 0 },
    total_tokens: input + output,
  };
}

export function newId(): string {
  return randomUUID().replaceAll("-", "");
}

/** The model's reasoning. */
export function reasoningItem(id: string, status: Status, text: string | undefined): object {
  const content = text === undefined ? [] : [{ type: "reasoning_text", text }];
  return { id, type: "reasoning", summary: [], content, status };
}

/** A part of a message. */
export type MessagePart =
  | {
      readonly type: "output_text";
      readonly annotations: readonly [];
      readonly logprobs: readonly [];
      readonly text: string;
    }
  | { readonly type: "refusal"; readonly refusal: string };

export function messagePart(type: MessagePart["type"], text: string): MessagePart {
  return type === "refusal" ? { type, refusal: text } : { type, annotations: [], logprobs: [], text };
}

export function messageItem(id: string, status: Status, content: readonly MessagePart[]): object {
  return { id, type: "message", status, role: "assistant", content };
}

/** How a call of each kind of tool is written. */
export const callForms = {
  function: { item: "function_call", idPrefix: "fc", field: "arguments", events: "response.function_call_arguments" },
  custom: { item: "custom_tool_call", idPrefix: "ctc", field: "input", events: "response.custom_tool_call_input" },
} as const;

export interface ToolCall {
  /** The item's id, without its prefix. */
  readonly id: string;
  readonly callId: string;
  readonly tool: ClientTool;
  /** The arguments of a function, or the input of a custom tool. */
  readonly text: string;
}

export function callItem(status: Status, { id, callId, tool, text }: ToolCall): object {
  const { item, idPrefix, field } = callForms[tool.type];
  const names = definedFields({ namespace: tool.namespace, name: tool.name });
  return { id: `${idPrefix}_${id}`, type: item, status, call_id: callId, ...names, [field]: text };
}

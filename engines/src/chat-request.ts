import { Refusal } from "./refusal.ts";
import type { Body } from "./requests.ts";

/** A message in the form of chat templates: OpenAI's, with the arguments of calls parsed. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  readonly tool_calls?: readonly ToolCall[];
  readonly tool_call_id?: string;
  readonly name?: string;
}

export interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: unknown };
}

export interface Tool {
  readonly name: string;
  readonly description: string | undefined;
  readonly parameters: unknown;
}

/** Which tools the model may call, and whether it must. */
export interface ToolUse {
  readonly tools: readonly Tool[];
  readonly isForced: boolean;
  readonly isParallel: boolean;
}

/** Messages with text content; parts of other types are refused, for this engine only reads text. */
export function readMessages(body: Body): ChatMessage[] {
  const { messages } = body;
  if (!Array.isArray(messages) || messages.length === 0)
    throw new Refusal(400, "messages must be a list of at least one message");
  return messages.map((message: unknown, index) => {
    const path = `messages[${index}]`;
    if (!isObject(message)) throw new Refusal(400, `${path} must be an object`);
    const { content, tool_calls: calls, tool_call_id: id, name } = message;
    const role = readRole(message["role"], path);
    if (role !== "assistant" && (content === undefined || content === null))
      throw new Refusal(400, `${path}.content is missing`);
    if (role === "tool" && typeof id !== "string") throw new Refusal(400, `${path}.tool_call_id is missing`);
    return {
      role,
      content: readContent(content, path),
      ...(calls === undefined || calls === null ? {} : { tool_calls: readCalls(calls, `${path}.tool_calls`) }),
      ...(typeof id === "string" ? { tool_call_id: id } : {}),
      ...(typeof name === "string" ? { name } : {}),
    };
  });
}

function readRole(role: unknown, path: string): ChatMessage["role"] {
  switch (role) {
    case "system":
    case "user":
    case "assistant":
    case "tool":
      return role;
    // A newer name of the same role, which no chat template knows.
    case "developer":
      return "system";
    default:
      throw new Refusal(400, `${path}.role must be system, developer, user, assistant or tool`);
  }
}

function readContent(content: unknown, path: string): string {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw new Refusal(400, `${path}.content must be a text or a list of parts`);
  return content
    .map((part: unknown) => {
      if (isObject(part) && typeof part["text"] === "string") return part["text"];
      throw new Refusal(400, `${path} has a part that is not text; this engine reads text only`);
    })
    .join("");
}

function readCalls(value: unknown, path: string): ToolCall[] {
  if (!Array.isArray(value)) throw new Refusal(400, `${path} must be a list`);
  return value.map((call: unknown, index) => {
    const called = isObject(call) ? call["function"] : undefined;
    if (!isObject(call) || !isObject(called) || typeof called["name"] !== "string")
      throw new Refusal(400, `${path}[${index}] names no function`);
    const id = typeof call["id"] === "string" ? call["id"] : `call_${index}`;
    const given = callArguments(called["arguments"], `${path}[${index}].function.arguments`);
    return { id, type: "function", function: { name: called["name"], arguments: given } };
  });
}

/** Arguments as a value, as templates expect them. Some engines write an empty text where there are none. */
function callArguments(value: unknown, path: string): unknown {
  if (typeof value !== "string") return value ?? {};
  if (value.trim() === "") return {};
  try {
    return JSON.parse(value) ?? {};
  } catch {
    throw new Refusal(400, `${path} is not JSON`);
  }
}

/** The tools of a request; undefined where there are none or `tool_choice` is `none`. Throws Refusal. */
export function readToolUse(body: Body): ToolUse | undefined {
  const { tools: given, tool_choice: choice = "auto" } = body;
  if (given === undefined || given === null || (Array.isArray(given) && given.length === 0)) {
    if (choice === "required" || isObject(choice))
      throw new Refusal(400, "tool_choice asks for a tool, and tools is empty");
    return undefined;
  }
  if (!Array.isArray(given)) throw new Refusal(400, "tools must be a list");
  const tools = given.map((tool: unknown, index) => readTool(tool, `tools[${index}]`));
  const isParallel = body["parallel_tool_calls"] !== false;
  if (choice === "none") return undefined;
  if (choice === "auto" || choice === null) return { tools, isForced: false, isParallel };
  if (choice === "required") return { tools, isForced: true, isParallel: false };
  const wanted = isObject(choice) && choice["type"] === "function" ? choice["function"] : undefined;
  if (!isObject(wanted)) throw new Refusal(400, "tool_choice must be auto, none, required or a function");
  const named = tools.filter(({ name }) => name === wanted["name"]);
  if (named.length === 0) throw new Refusal(400, "tool_choice names a function that is not among the tools");
  return { tools: named, isForced: true, isParallel: false };
}

function readTool(tool: unknown, path: string): Tool {
  if (!isObject(tool) || tool["type"] !== "function")
    throw new Refusal(400, `${path} is no function; this engine calls functions only`);
  const { function: described } = tool;
  const name = isObject(described) ? described["name"] : undefined;
  if (!isObject(described) || typeof name !== "string" || !/^[A-Za-z0-9_.-]{1,64}$/.test(name))
    throw new Refusal(400, `${path}.function.name must be 1 to 64 letters, digits, _ . or -`);
  const { description, parameters } = described;
  return {
    name,
    description: typeof description === "string" ? description : undefined,
    parameters,
  };
}

/** The form of the whole answer. */
export type AnswerFormat =
  | { readonly kind: "schema"; readonly schema: unknown; readonly isStrict: boolean }
  | { readonly kind: "grammar"; readonly text: string };

/** `response_format`, or llama.cpp's own `grammar` and `json_schema`; undefined: any text. Throws Refusal. */
export function readFormat(body: Body): AnswerFormat | undefined {
  const { response_format: format, grammar, json_schema: schema } = body;
  const asked = [format, grammar, schema].filter((value) => value !== undefined && value !== null);
  if (asked.length > 1) throw new Refusal(400, "only one of response_format, json_schema and grammar can hold");
  if (typeof grammar === "string") return grammar === "" ? undefined : { kind: "grammar", text: grammar };
  if (schema !== undefined && schema !== null) return { kind: "schema", schema, isStrict: true };
  if (format === undefined || format === null) return undefined;
  const { type, json_schema: named, schema: inline } = isObject(format) ? format : {};
  switch (type) {
    case "text":
      return undefined;
    case "json_object":
      return { kind: "schema", schema: inline ?? { type: "object" }, isStrict: inline !== undefined };
    case "json_schema":
      if (!isObject(named) || !isObject(named["schema"]))
        throw new Refusal(400, "response_format.json_schema.schema is missing");
      return { kind: "schema", schema: named["schema"], isStrict: named["strict"] === true };
    default:
      throw new Refusal(400, "response_format.type must be text, json_object or json_schema");
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

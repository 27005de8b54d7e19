import { hash } from "node:crypto";
import { z } from "zod";
import { invalidRequest } from "../../api/problems.ts";
import { definedFields, isRecord } from "../../lib/record.ts";
import { byType, typeName } from "./by-type.ts";
import { checkRequest, encodeRequest } from "./json.ts";
import { listOf } from "./list-of.ts";

/** OpenAI's own limit is 64 characters. The name of a namespace is repeated for each of its members. */
const toolName = z.string().max(256, "must have at most 256 characters");
const described = { name: toolName, description: z.string().nullish() };
const functionTool = z.object({
  type: z.literal("function"),
  ...described,
  parameters: z.record(z.string(), z.unknown()).nullish(),
  strict: z.boolean().nullish(),
});
const customTool = z.object({
  type: z.literal("custom"),
  ...described,
  format: z.object({ type: z.string(), syntax: z.string().nullish(), definition: z.string().nullish() }).nullish(),
});

const flatToolSchema = z.discriminatedUnion("type", [functionTool, customTool]);

/** A tool of the client's own, or the type of another tool as its name. */
type OwnTool =
  z.output<typeof functionTool> | z.output<typeof customTool> | { readonly type: "other"; readonly name: string };
const otherTool = (name: string): OwnTool => ({ type: "other", name });

const callable = { function: functionTool, custom: customTool };
const namespaceTool = z.object({
  type: z.literal("namespace"),
  ...described,
  tools: listOf(byType<OwnTool>(callable, otherTool)),
});

/**
 * Functions, custom tools, and namespaces of both. Other tools run in OpenAI's service, or have no schema: a chat is
 * asked without them.
 */
export const toolsSchema = listOf(
  byType<OwnTool | z.output<typeof namespaceTool>>({ ...callable, namespace: namespaceTool }, otherTool),
);

/** The tools that can be called. */
export function callableTools(tools: z.output<typeof toolsSchema>): object[] {
  const isCallable = ({ type }: { readonly type: string }): boolean => type !== "other";
  return tools
    .filter(isCallable)
    .map((tool) => (tool.type === "namespace" ? { ...tool, tools: tool.tools.filter(isCallable) } : tool));
}

const named = { name: toolName, namespace: toolName.nullish() };
export const toolChoiceSchema = z.union(
  [
    z.enum(["none", "auto", "required"]),
    z.discriminatedUnion(
      "type",
      [
        z.object({ type: z.enum(["function", "custom"]), ...named }),
        z.object({
          type: z.literal("allowed_tools"),
          mode: z.enum(["auto", "required"]),
          tools: listOf(z.looseObject({ type: z.string(), name: toolName.default(""), namespace: toolName.nullish() })),
        }),
      ],
      { error: ({ input }) => `${typeName(input)} cannot be called here: only functions and custom tools` },
    ),
  ],
  'must be "none", "auto", "required", a function, a custom tool or allowed_tools',
);

type ToolChoice = z.output<typeof toolChoiceSchema>;

/** A client's tool: its own name, and that of its namespace. */
export interface NamedTool {
  readonly name: string;
  readonly namespace?: string | null | undefined;
}

export interface ClientTool extends NamedTool {
  readonly type: "function" | "custom";
}

/** OpenAI refuses longer names, and so do providers that follow it. */
const nameLimit = 64;

/**
 * The client's tools as functions of a chat. A custom tool becomes a function with one text, `input`; the name of a
 * namespace's member begins with that of the namespace.
 */
export class ChatTools {
  /** By the name in the chat. A tool that the client lists again has its last definition. */
  readonly #definitions = new Map<string, object>();
  /** By the name in the chat. */
  readonly #tools = new Map<string, ClientTool>();
  /** The names in the chat, by `keyOf`. */
  readonly #names = new Map<string, string>();
  /** The types of tools that cannot be called in a chat. */
  readonly others: readonly string[];

  constructor(tools: z.output<typeof toolsSchema>) {
    const members = tools.flatMap((tool): (OwnTool & { readonly namespace?: string })[] =>
      tool.type === "namespace" ? tool.tools.map((member) => ({ ...member, namespace: tool.name })) : [tool],
    );
    this.others = [...new Set(members.flatMap((tool) => (tool.type === "other" ? [tool.name] : [])))];
    // A function outside a namespace keeps its name.
    for (const { type, name, namespace } of members)
      if (type === "function" && namespace === undefined) this.#note({ type, name }, name);
    for (const tool of members) {
      if (tool.type === "other") continue;
      const { type, name: ownName, namespace } = tool;
      const known = { type, name: ownName, namespace };
      const name = this.nameOf(known);
      this.#note(known, name);
      this.#definitions.set(name, chatFunction(tool, name));
    }
  }

  /** A tool's name in the chat, whether or not the request has the tool. */
  nameOf(tool: NamedTool): string {
    const key = keyOf(tool);
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    const whole = `${tool.namespace ?? ""}${tool.name}`;
    if (whole.length <= nameLimit && !this.#tools.has(whole)) return whole;
    const suffix = `_${hash("sha256", key).slice(0, 8)}`;
    return `${whole.slice(0, nameLimit - suffix.length)}${suffix}`;
  }

  /** The tool that the engine calls by this name. */
  called(name: string): ClientTool {
    return this.#tools.get(name) ?? { type: "function", name };
  }

  /**
   * The fields about tools in the chat; without tools none is allowed. Throws ApiError `dispatch.invalid_request` where
   * the client wants a call and all tools that may be called are missing in the chat.
   */
  fields(choice: ToolChoice | null | undefined, isParallel: boolean | null | undefined): object {
    const allowed = typeof choice === "object" && choice?.type === "allowed_tools" ? choice : undefined;
    // A namespace stands for all its members.
    const names = new Set<string | null | undefined>(
      allowed?.tools.map((each) => (each.type === "namespace" ? each.name : keyOf(each))),
    );
    const offered = [...this.#definitions].filter(([name]) => {
      const tool = this.called(name);
      return allowed === undefined || names.has(keyOf(tool)) || names.has(tool.namespace);
    });
    if (offered.length > 0) {
      const tools = offered.map(([, definition]) => definition);
      return { tools, tool_choice: this.#choice(choice), parallel_tool_calls: isParallel };
    }
    const isWanted = (allowed?.mode ?? choice ?? "auto") !== "auto" && choice !== "none";
    if (isWanted && this.others.length > 0) {
      const message = `${this.others.join(", ")} cannot be called here: only functions and custom tools`;
      throw invalidRequest([{ path: ["tool_choice"], message }]);
    }
    return {};
  }

  #choice(choice: ToolChoice | null | undefined): unknown {
    if (typeof choice !== "object" || choice === null) return choice;
    return choice.type === "allowed_tools"
      ? choice.mode
      : { type: "function", function: { name: this.nameOf(choice) } };
  }

  #note(tool: ClientTool, name: string): void {
    this.#tools.set(name, tool);
    this.#names.set(keyOf(tool), name);
  }
}

/** A tool as a function of a chat with the name `name`. */
function chatFunction(tool: z.output<typeof flatToolSchema>, name: string): object {
  const form =
    tool.type === "custom" ? { parameters: inputOf(tool) } : { parameters: tool.parameters, strict: tool.strict };
  return { type: "function", function: definedFields({ name, description: tool.description, ...form }) };
}

function keyOf({ name, namespace }: NamedTool): string {
  return JSON.stringify([namespace ?? null, name]);
}

function inputOf({ format }: z.output<typeof customTool>): object {
  const { syntax, definition } = format ?? {};
  const description = definition ? `Follows this ${syntax ?? "formal"} grammar:\n${definition}` : undefined;
  const input = definedFields({ type: "string", description });
  return { type: "object", properties: { input }, required: ["input"], additionalProperties: false };
}

/** Whether a tool has its fields beside `type`, as Cursor sends them: a chat has them in `function` or `custom`. */
function isFlat(tool: unknown): boolean {
  if (!isRecord(tool) || (tool["type"] !== "function" && tool["type"] !== "custom")) return false;
  return typeof tool["name"] === "string" && tool[tool["type"]] === undefined;
}

/** `tools`: those of a request for a chat. */
export function hasFlatTools(tools: unknown): boolean {
  return Array.isArray(tools) && tools.some(isFlat);
}

const chatSchema = z.looseObject({ tools: z.array(z.unknown()), tool_choice: z.unknown().optional() });

/** A chat with its flat tools as functions of a chat, custom ones too. Throws ApiError `dispatch.invalid_request`. */
export function withNestedTools(body: Buffer): Buffer {
  const { tools, tool_choice: choice, ...chat } = checkRequest(chatSchema, body);
  return encodeRequest({
    ...chat,
    tools: tools.map((tool) => {
      const flat = isFlat(tool) ? flatToolSchema.safeParse(tool).data : undefined;
      return flat === undefined ? tool : chatFunction(flat, flat.name);
    }),
    tool_choice: isRecord(choice) && isFlat(choice) ? { type: "function", function: { name: choice["name"] } } : choice,
  });
}

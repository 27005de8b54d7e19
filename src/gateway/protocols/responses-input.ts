import { z } from "zod";
import { byType } from "./by-type.ts";
import { filePart, notShown, textPart, unknownPart, type ChatContent, type ChatPart } from "./chat-content.ts";
import { listOf } from "./list-of.ts";
import { toolsSchema, type NamedTool } from "./responses-tools.ts";

const text = z.object({ text: z.string() }).transform((part) => textPart(part.text));

/** The parts of a content as a chat has them. Files are not stored here: only those within the request can be shown. */
const parts = listOf(
  byType<ChatPart>(
    {
      text,
      input_text: text,
      output_text: text,
      refusal: z.object({ refusal: z.string() }).transform(({ refusal }) => textPart(refusal)),
      input_image: z
        .object({ image_url: z.string().nullish(), detail: z.string().nullish() })
        .transform(({ image_url: url, detail }): ChatPart => {
          if (typeof url !== "string") return notShown("An image that is stored elsewhere");
          return { type: "image_url", image_url: typeof detail === "string" ? { url, detail } : { url } };
        }),
      input_audio: z
        .object({ input_audio: z.object({ data: z.string(), format: z.string() }) })
        .transform((part): ChatPart => ({ type: "input_audio", ...part })),
      input_file: z
        .object({ filename: z.string().nullish(), file_data: z.string().nullish() })
        .transform(({ filename, file_data: data }) => filePart(filename, ...fileIn(data ?? undefined))),
    },
    unknownPart,
  ),
);

/** The media type and the bytes of a `data:` URL (https://www.rfc-editor.org/rfc/rfc2397), or of base64 alone. */
function fileIn(data: string | undefined): [mediaType: string, bytes: Buffer | undefined] {
  const comma = data?.indexOf(",") ?? -1;
  if (data === undefined || !/^data:/i.test(data) || comma < 0)
    return ["", data === undefined ? undefined : Buffer.from(data, "base64")];
  const head = data.slice("data:".length, comma);
  const [mediaType = ""] = head.split(";", 1);
  const value = data.slice(comma + 1);
  return [mediaType, /;\s*base64\b/i.test(head) ? Buffer.from(value, "base64") : unescaped(value)];
}

function unescaped(text: string): Buffer {
  try {
    return Buffer.from(decodeURIComponent(text));
  } catch {
    return Buffer.from(text);
  }
}

const content = z.union([z.string(), parts], "must be a text or a list of parts");

const role = z.enum(
  ["user", "assistant", "system", "developer"],
  'must be "user", "assistant", "system" or "developer"',
);

/** The meaning of an item for a chat. */
export type ResponsesItem =
  | { readonly kind: "message"; readonly role: z.output<typeof role>; readonly content: ChatContent }
  | { readonly kind: "call"; readonly id: string; readonly tool: NamedTool; readonly arguments: string }
  | { readonly kind: "output"; readonly id: string; readonly content: ChatContent }
  | { readonly kind: "tools"; readonly tools: z.output<typeof toolsSchema> }
  | { readonly kind: "reference"; readonly id: string }
  | { readonly kind: "reasoning" }
  | { readonly kind: "other"; readonly type: string };

const message = z.object({ role, content }).transform((item): ResponsesItem => ({ kind: "message", ...item }));
const named = { call_id: z.string(), name: z.string(), namespace: z.string().nullish() };
const output = z
  .object({ call_id: z.string(), output: content })
  .transform((item): ResponsesItem => ({ kind: "output", id: item.call_id, content: item.output }));

const moreTools = z.object({ tools: toolsSchema }).transform((item): ResponsesItem => ({ kind: "tools", ...item }));

/** A call of a tool that OpenAI's models know without a schema. Other models get its record as JSON. */
function trainedCall(name: string): z.ZodType<ResponsesItem> {
  return z
    .object({ ...trained, action: z.unknown().optional(), operation: z.unknown().optional() })
    .transform(({ id, call_id: callId, action, operation }) => {
      return { kind: "call", id: callId ?? id ?? "", tool: { name }, arguments: jsonText(action ?? operation ?? {}) };
    });
}
const trained = { id: z.string().nullish(), call_id: z.string().nullish() };
const trainedOutput = z
  .object({ ...trained, output: z.unknown().optional(), status: z.string().nullish() })
  .transform(({ id, call_id: callId, output: given, status }): ResponsesItem => {
    return { kind: "output", id: callId ?? id ?? "", content: jsonText(given ?? status ?? "") };
  });

function jsonText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Translates an item by its type. A chat has no place for other types, such as records of OpenAI's own tools. */
const item = byType<ResponsesItem>(
  {
    message,
    function_call: z.object({ ...named, arguments: z.string() }).transform((call): ResponsesItem => {
      return { kind: "call", id: call.call_id, tool: call, arguments: call.arguments };
    }),
    function_call_output: output,
    custom_tool_call: z.object({ ...named, input: z.string() }).transform((call): ResponsesItem => {
      return { kind: "call", id: call.call_id, tool: call, arguments: JSON.stringify({ input: call.input }) };
    }),
    custom_tool_call_output: output,
    local_shell_call: trainedCall("local_shell"),
    local_shell_call_output: trainedOutput,
    shell_call: trainedCall("shell"),
    shell_call_output: trainedOutput,
    apply_patch_call: trainedCall("apply_patch"),
    apply_patch_call_output: trainedOutput,
    additional_tools: moreTools,
    tool_search_output: moreTools,
    reasoning: z.unknown().transform((): ResponsesItem => ({ kind: "reasoning" })),
    item_reference: z.object({ id: z.string() }).transform(({ id }): ResponsesItem => ({ kind: "reference", id })),
  },
  (type) => ({ kind: "other", type }),
);

/** A message may omit its type, and so may a reference. */
function typed(value: unknown): unknown {
  if (typeof value !== "object" || value === null || ("type" in value && value.type !== null)) return value;
  if ("role" in value) return { ...value, type: "message" };
  return "id" in value ? { ...value, type: "item_reference" } : value;
}

export const inputItemSchema = z.preprocess(typed, item);

import { isUtf8 } from "node:buffer";

/** A part of the content of a chat's message. */
export type ChatPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image_url"; readonly image_url: { readonly url: string; readonly detail?: string } }
  | { readonly type: "input_audio"; readonly input_audio: { readonly data: string; readonly format: string } };

export type ChatContent = string | readonly ChatPart[];

export function textPart(text: string): ChatPart {
  return { type: "text", text };
}

/** Shown to the model in place of content that it cannot be shown: a refusal would end every later turn too. */
export function notShown(what: string): ChatPart {
  return textPart(`[${what} could not be shown to this model.]`);
}

/** Content of a type that has no meaning here. */
export function unknownPart(type: string): ChatPart {
  return notShown(`Content of ${type === "another type" ? type : `the type ${type}`}`);
}

export function titled(title: string | null | undefined, text: string): ChatPart {
  return textPart(`${title ? `${title}\n\n` : ""}${text}`);
}

/** A file as its text, or as a sentence where it is a PDF or no text. `bytes` is undefined for a file that is not sent. */
export function filePart(title: string | null | undefined, mediaType: string, bytes: Buffer | undefined): ChatPart {
  if (bytes !== undefined && isText(bytes, mediaType)) return titled(title, bytes.toString());
  const name = title ? ` "${title}"` : "";
  return notShown(`A document${name}${bytes === undefined ? "" : ` of ${bytes.length} bytes`}`);
}

/** A PDF may consist of text, and says nothing as such. */
function isText(bytes: Buffer, mediaType: string): boolean {
  const isPdf = mediaType === "application/pdf" || bytes.toString("latin1", 0, 5) === "%PDF-";
  return !isPdf && isUtf8(bytes) && !bytes.includes(0);
}

/** One text where all parts are text: many engines accept nothing else. */
export function contentOf(content: ChatContent): ChatContent {
  if (typeof content === "string" || !content.every(({ type }) => type === "text")) return content;
  return textOf(content);
}

/** The texts of a content. */
export function textOf(content: ChatContent, between = "\n\n"): string {
  if (typeof content === "string") return content;
  return content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join(between);
}

export function partsOf(content: ChatContent): readonly ChatPart[] {
  return typeof content === "string" ? [textPart(content)] : content;
}

/** The images and sounds of a content. */
export function mediaOf(content: ChatContent): readonly ChatPart[] {
  return partsOf(content).filter(({ type }) => type !== "text");
}

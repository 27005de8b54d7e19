interface Reader {
  read(): Promise<{ readonly done: boolean; readonly value?: string | undefined }>;
}

/** All that is still to come. */
export async function restOf(reader: Reader | undefined): Promise<string> {
  let text = "";
  for (;;) {
    const next = await reader?.read();
    if (next === undefined || next.done) return text;
    text += next.value ?? "";
  }
}

/** Its events without the comments that a stream says while it waits. */
export function withoutComments(stream: string): string {
  return stream
    .split("\n\n")
    .filter((event) => !event.startsWith(":"))
    .join("\n\n");
}

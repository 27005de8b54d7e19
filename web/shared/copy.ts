/** Puts a text on the clipboard. What a button says then; pages without HTTPS have no clipboard, so that it says what to do. */
export async function copy(text: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(text);
    return "Copied";
  } catch {
    return "Select it and press Ctrl+C";
  }
}

import { errorCode } from "../../lib/error-code.ts";
import type { Distrust } from "../../lib/trusted-path.ts";
import type { Diagnostic } from "../store.ts";
import type { FileEntry } from "./declared-files.ts";
import { readManifests } from "./manifest.ts";
import { readManifestText, UntrustedManifest, whyUnread } from "./manifest-text.ts";

/**
 * What a file declares now; undefined where it was removed after the listing, as the next listing shows. `text` is
 * undefined for a file that is not read: its earlier declarations stay, with the reason.
 */
export function readFileEntry(
  file: string,
  known: FileEntry | undefined,
  unsafe: Distrust | undefined,
): Pick<FileEntry, "text" | "declarations"> | undefined {
  let text: string;
  try {
    if (unsafe !== undefined) throw new UntrustedManifest(unsafe);
    text = readManifestText(file);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    const diagnostics: Diagnostic[] = [{ reason: "Unreadable", file, message: whyUnread(error) }];
    const before = known?.declarations ?? [];
    const declarations = before.length > 0 ? before : readManifests(file, "");
    return { text: undefined, declarations: declarations.map((declaration) => ({ ...declaration, diagnostics })) };
  }
  if (known?.text === text) return { text, declarations: known.declarations };
  const declarations = readManifests(file, text);
  const [only] = declarations;
  // A text that does not parse says nothing of which resources it declares: those it declared before keep it.
  const isUnparsed = declarations.length === 1 && only?.spec === undefined && only?.diagnostics[0]?.path === undefined;
  const before = known?.declarations ?? [];
  if (!isUnparsed || before.length === 0) return { text, declarations };
  const diagnostics = only?.diagnostics ?? [];
  return {
    text,
    declarations: before.map((declaration) => ({ ...declaration, spec: undefined, at: undefined, diagnostics })),
  };
}

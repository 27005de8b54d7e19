import { arch } from "node:process";
import {
  releaseIndexSchema,
  releaseTargets,
  type IndexEntry,
  type ReleaseChannel,
  type ReleaseFile,
  type ReleaseTarget,
} from "../../api/release.ts";
import { CommandError } from "../../cli/client.ts";
import { parseJson } from "../../lib/json.ts";
import type { MinisignPublicKey } from "../../lib/minisign.ts";
import { isRecord } from "../../lib/record.ts";
import { readSmall, shown, type Source } from "./source.ts";
import { verifyText } from "./verify.ts";

const indexLimitBytes = 4 * 1024 ** 2;

/** A release of the index for this machine. */
export interface Offered {
  readonly entry: IndexEntry;
  readonly file: ReleaseFile;
}

/** The build for this machine. Throws CommandError on another kind of machine. */
export function ownTarget(): ReleaseTarget {
  const target = releaseTargets.find((each) => each === `linux-${arch}`);
  if (target !== undefined) return target;
  throw new CommandError("update.none", `there is no release for ${arch}`, "run Berth from its sources");
}

/**
 * The newest release of the channel for this machine; undefined where the channel has none. Throws CommandError for an
 * index that cannot be read, is not one, or is not signed by the key.
 */
export async function newestRelease(
  source: Source,
  key: MinisignPublicKey,
  { channel, from }: { readonly channel: ReleaseChannel; readonly from: string | undefined },
): Promise<Offered | undefined> {
  const check = from === undefined ? "check update_url in berth.toml" : "check what --from names";
  const text = await readSmall(source, indexLimitBytes);
  if (text === undefined) throw new CommandError("update.unreachable", `${shown(source)} is not there`, check);
  const value = parseJson(text);
  if (!isRecord(value) || !("format" in value)) {
    const what = /^\s*</.test(text) ? "a web page" : "another file";
    throw new CommandError(
      "update.index",
      `${shown(source)} is ${what}, and not an index of releases`,
      `${check}; a login page of the network may be in between`,
    );
  }
  await verifyText(key, source, text);
  if (value["format"] !== 1)
    throw new CommandError(
      "update.index",
      `${shown(source)} has format ${String(value["format"])}, which is newer than this version`,
      "download the newest release from its publisher, and give it to `berth update --from FILE`",
    );
  const parsed = releaseIndexSchema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const where = issue?.path.join(".") ?? "";
    throw new CommandError(
      "update.index",
      `${shown(source)} is a broken index: ${where}: ${issue?.message ?? ""}`,
      "ask its publisher",
    );
  }
  const target = ownTarget();
  for (const entry of parsed.data.channels[channel] ?? []) {
    const file = entry.files[target];
    if (file !== undefined) return { entry, file };
  }
  return undefined;
}

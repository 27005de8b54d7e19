import { decoded } from "./fetch/source.ts";
import { shard } from "./model-files.ts";

/** A repository of a hub, as a person has typed it. */
export interface TypedRepository {
  readonly kind: "repository";
  readonly owner: string;
  readonly repo: string;
  readonly revision: string;
  /** The text after a colon: a quantisation, such as `Q4_K_M`, or the name of a file. */
  readonly tag: string | undefined;
}

/** The meaning of a text that names a model. */
export type TypedName =
  | TypedRepository
  /** The sources of one model's files: every shard of a model in shards. */
  | { readonly kind: "files"; readonly sources: readonly string[] }
  /** A name that only a registry or a catalogue can know. */
  | { readonly kind: "name"; readonly name: string }
  /** `message` says why, and what can be typed instead. */
  | { readonly kind: "unreadable"; readonly message: string };

const hubHosts: readonly string[] = ["huggingface.co", "www.huggingface.co", "hf.co"];
const hubName = /^[A-Za-z0-9][\w.-]{0,95}$/;
const repositoryText = /^(?<owner>[^/:@]+)\/(?<repo>[^/:@]+)(?::(?<tag>[^/:@]+))?(?:@(?<revision>[^:@]+))?$/;
const fileText = /^[^/:@]+\/[^/:@]+\/[^:]+\.gguf(?:@[^:@]+)?$/i;
/** Pages of the hub whose path begins with a word that is no owner. */
const otherPages: readonly string[] = ["datasets", "spaces", "collections", "papers", "docs", "models", "api"];
const filePages: readonly string[] = ["tree", "blob", "resolve", "raw"];
const mostShards = 1000;

/**
 * Reads a text that a person types to name a model: the name of a model, `owner/name[:Q4_K_M][@revision]` with or without
 * the hub's host, the address of a hub's page, or the source of a file. Asks nobody: a name may be unknown.
 */
export function readTypedName(typed: string): TypedName {
  const text = typed.trim();
  const [, scheme = "", rest = text] = /^([a-z][a-z0-9+.-]*):\/\/(.*)$/is.exec(text) ?? [];
  switch (scheme.toLowerCase()) {
    case "hf":
      return repositoryOf(rest) ?? filesOf(`hf://${rest}`);
    case "http":
    case "https":
      return isHub(rest) ? pageOf(rest) : filesOf(text);
    case "": {
      if (isHub(text)) return pageOf(text);
      if (fileText.test(text)) return filesOf(`hf://${text}`);
      return repositoryOf(text) ?? { kind: "name", name: text };
    }
    default:
      return filesOf(text);
  }
}

function isHub(text: string): boolean {
  return hubHosts.includes(/^[^/?#]*/.exec(text)?.[0].toLowerCase() ?? "");
}

function repositoryOf(text: string): TypedRepository | undefined {
  const { owner = "", repo = "", tag, revision = "main" } = repositoryText.exec(text)?.groups ?? {};
  return hubName.test(owner) && hubName.test(repo) ? { kind: "repository", owner, repo, tag, revision } : undefined;
}

/** `text` begins with the hub's host. The path may be a repository, a directory of it, or the page of a file. */
function pageOf(text: string): TypedName {
  const [address = ""] = text.split(/[?#]/);
  const path =
    decoded(address)
      ?.split("/")
      .slice(1)
      .filter((part) => part !== "") ?? [];
  const [owner = "", repo = "", page = "", revision = "", ...parts] = path;
  const named = otherPages.includes(owner) ? undefined : repositoryOf(`${owner}/${repo}`);
  if (named === undefined) {
    const message = `${text.slice(0, 200)} is no page of a model: copy the address of a model's page, such as https://huggingface.co/owner/name`;
    return { kind: "unreadable", message };
  }
  if (!filePages.includes(page) || revision === "") return named;
  // The parts of a pull request's name look like directories.
  const isRequest = revision === "refs" && parts[0] === "pr";
  const whole = isRequest ? [revision, ...parts.slice(0, 2)].join("/") : revision;
  const file = isRequest ? parts.slice(2) : parts;
  if (page === "tree" || file.length === 0) return { ...named, revision: whole };
  return filesOf(`hf://${named.owner}/${named.repo}/${file.join("/")}${whole === "main" ? "" : `@${whole}`}`);
}

/** The name of one shard is that of every shard. */
function filesOf(source: string): TypedName {
  const [, stem = "", end = ""] = /^(.*)(\.gguf(?:@[^/]*)?)$/is.exec(source) ?? [];
  const { base, count = "0" } = (source.startsWith("hf://") ? shard.exec(stem) : null)?.groups ?? {};
  const shards = Number(count);
  if (base === undefined || shards < 1 || shards > mostShards) return { kind: "files", sources: [source] };
  const sources = Array.from(
    { length: shards },
    (_, index) => `${base}-${String(index + 1).padStart(5, "0")}-of-${count}${end}`,
  );
  return { kind: "files", sources };
}

/** A name of the catalogue in parts: `gemma-3-4b-it` is of the family `gemma3`, has the size `4b`, and the variant `it`. */
interface NameParts {
  readonly family: string;
  readonly size: string | undefined;
  readonly variants: readonly string[];
}

const sizeText = /^\d+(?:\.\d+)?[bm]$/;

function partsOf(name: string): NameParts {
  const words = name.toLowerCase().split(/[-_:/]+/);
  const at = words.findIndex((word) => sizeText.test(word));
  if (at === -1) return { family: words.join(""), size: undefined, variants: [] };
  return { family: words.slice(0, at).join(""), size: words[at], variants: words.slice(at + 1) };
}

/**
 * The ids that a name such as `qwen3:4b` stands for: of the same family and size, with all its variants. Without a size,
 * or with the tag `latest`, all of the family. `exact` is empty where only others of the family exist, which `family` holds.
 */
export function sameFamily(
  name: string,
  ids: readonly string[],
): { readonly exact: readonly string[]; readonly family: readonly string[] } {
  const wanted = partsOf(name.replace(/:latest$/i, ""));
  const family = ids.filter((id) => partsOf(id).family === wanted.family);
  const exact = family.filter((id) => {
    const { size, variants } = partsOf(id);
    const hasAll = wanted.variants.every((variant) => variants.includes(variant));
    return (wanted.size === undefined || size === wanted.size) && hasAll;
  });
  return { exact, family };
}

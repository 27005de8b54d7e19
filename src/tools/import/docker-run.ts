import type { ContainerLine, Volume } from "./container-line.ts";

/** Options of `docker run` and `podman run` without a value (docs.docker.com, docs.podman.io); those of one letter are below. */
const switches = new Set(
  "--rm --init --detach --interactive --tty --privileged --no-healthcheck --read-only --publish-all --oom-kill-disable --quiet --replace --rmi".split(
    " ",
  ),
);

/** Bytes of a size such as `8g`; undefined: it is no size. */
export function sizeBytes(text: string): number | undefined {
  const [, number, unit = ""] = /^(\d+(?:\.\d+)?)\s*([kmg]?)i?b?$/i.exec(text) ?? [];
  if (number === undefined) return undefined;
  return Math.round(Number(number) * 1024 ** ["", "k", "m", "g"].indexOf(unit.toLowerCase()));
}

/** `source:target:ro`; undefined: it names no source. */
export function volumeOf(text: string): Volume | undefined {
  // The colon after the letter of a Windows drive separates nothing.
  const [, source, target, mode = ""] = /^([A-Za-z]:[\\/][^:]*|[^:]*):([^:]*)(?::(.*))?$/.exec(text) ?? [];
  if (source === undefined || target === undefined) return undefined;
  return { source, target, readOnly: mode.split(",").includes("ro") };
}

/** The variables of texts such as `NAME=value`; a name alone has no value. */
export function pairsOf(texts: readonly string[]): ContainerLine["env"] {
  return texts.map((text) => {
    const [name = "", ...rest] = text.split("=");
    return [name, rest.length === 0 ? undefined : rest.join("=")] as const;
  });
}

/** The port inside the container, of `127.0.0.1:8081:8080/tcp`. */
export function insidePortOf(text: string): string | undefined {
  return text.split(":").at(-1)?.replace(/\/.*$/, "");
}

/** Reads the words of `docker run` or `podman run`; undefined for any other command. */
export function dockerRun(
  words: readonly string[],
): { readonly line: ContainerLine; readonly unknown: readonly string[] } | undefined {
  const [program = "", run] = words;
  if (!/(?:^|\/)(?:docker|podman)$/.test(program) || run !== "run") return undefined;
  const given = new Map<string, string[]>();
  let at = 2;
  for (; at < words.length; at += 1) {
    const word = words[at] ?? "";
    if (!word.startsWith("-")) break;
    // Switches of one letter may stand before an option of one, and its value behind it: `-itp8080:80`.
    const [, long = "", after, short = "", behind] =
      /^(--[^=]+)(?:=([^]*))?$|^-[ditPq]*(\w?)=?([^]*)$/.exec(word) ?? [];
    if (switches.has(long) || (long === "" && short === "")) continue;
    const name = long || `-${short}`;
    const value = after ?? (behind || words[(at += 1)] || "");
    given.set(name, [...(given.get(name) ?? []), value]);
  }
  const image = words[at];
  if (image === undefined) return undefined;
  const all = (...names: string[]): readonly string[] => names.flatMap((name) => given.get(name) ?? []);
  const [gpus] = all("--gpus");
  const [shm = ""] = all("--shm-size");
  const [port] = all("-p", "--publish");
  const [entrypoint] = all("--entrypoint");
  const read = "--gpus --shm-size -p --publish --entrypoint -v --volume -e --env --device --name".split(" ");
  return {
    unknown: [...given.keys()].filter((name) => !read.includes(name)),
    line: {
      image,
      args: words.slice(at + 1),
      entrypoint: entrypoint === undefined ? undefined : [entrypoint],
      volumes: all("-v", "--volume").flatMap((text) => volumeOf(text) ?? []),
      env: pairsOf(all("-e", "--env")),
      devices: all("--device").map((text) => text.split(":")[0] ?? ""),
      gpus: gpus === undefined ? undefined : /^\d+$/.test(gpus) ? Number(gpus) : "all",
      port: port === undefined ? undefined : insidePortOf(port),
      shmSizeBytes: sizeBytes(shm),
    },
  };
}

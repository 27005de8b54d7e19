/** Types that no browser executes, renders with scripts, or loads a script from. */
const passive =
  /^(application\/(json|x-ndjson|octet-stream|ogg|x-subrip)|text\/(event-stream|plain|vtt)|audio\/[\w.+-]+|video\/[\w.+-]+|image\/(png|jpeg|webp|gif|avif))$/;
/** One type with parameters, and no comma: where a header names several, browsers use the last (Fetch, 2.2.2). */
const sound = /^([\w.+-]+\/[\w.+-]+)(\s*;\s*[\w-]+=([\w.+-]+|"[^",\\]*"))*\s*;?$/;

const known = new Map<string, string>();
const knownLimit = 100;

/**
 * The content type for an answer of an engine or provider. A page, a picture with scripts or a style sheet would run in
 * our origin for everybody who opens its address: text becomes plain text, every other type bytes.
 */
export function passiveType(type: string): string {
  let safe = known.get(type);
  if (safe === undefined) {
    safe = judge(type);
    if (known.size >= knownLimit) known.clear();
    known.set(type, safe);
  }
  return safe;
}

function judge(type: string): string {
  const essence = sound.exec(type.trim())?.[1]?.toLowerCase() ?? "";
  if (passive.test(essence)) return type;
  return /^\s*text\//i.test(type) ? "text/plain; charset=utf-8" : "application/octet-stream";
}

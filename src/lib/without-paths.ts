/**
 * A message for a client, without the directories of paths: the file's own name helps, the rest would disclose the
 * machine. A slash within words begins no path: `user/assistant/…`.
 */
export function withoutPaths(message: string): string {
  return message.replaceAll(/(?<!\w)(?:[A-Za-z]:)?(?:[\\/][^\\/\s'":]+)+[\\/]([^\\/\s'":]+)/g, "$1");
}

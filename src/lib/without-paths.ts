/**
 * A message for a client, without the directories of paths: the file's own name helps, the rest would disclose the
 * machine.
 */
export function withoutPaths(message: string): string {
  return message.replaceAll(/(?:[A-Za-z]:)?(?:[\\/][^\\/\s'":]+)+[\\/]([^\\/\s'":]+)/g, "$1");
}

/** Words for a client, without the directories of paths: the file's own name helps, the machine is nobody's business. */
export function withoutPaths(message: string): string {
  return message.replaceAll(/(?:[A-Za-z]:)?(?:[\\/][^\\/\s'":]+)+[\\/]([^\\/\s'":]+)/g, "$1");
}

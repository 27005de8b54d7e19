import type { IconNode } from "lucide";
import type { JSX } from "preact";
import { Icon } from "../../shared/icon.tsx";

interface IconButtonProps {
  readonly name: string;
  readonly icon: IconNode;
  readonly onClick: () => void;
  /** Whether it stays, and does nothing. */
  readonly isOff?: boolean;
}

/** A small button without words. */
export function IconButton({ name, icon, onClick, isOff = false }: IconButtonProps): JSX.Element {
  return (
    <button
      type="button"
      class="ghost icon"
      aria-label={name}
      title={name}
      aria-disabled={isOff}
      onClick={() => !isOff && onClick()}
    >
      <Icon of={icon} />
    </button>
  );
}

import type { ComponentChildren, JSX } from "preact";

interface ButtonProps {
  readonly children: ComponentChildren;
  /** For a button whose text alone does not say what it acts on. */
  readonly label?: string | undefined;
  readonly isMain?: boolean | undefined;
  /** Sends its form, which Enter in a field does then too. */
  readonly isSubmit?: boolean | undefined;
  readonly isOff: boolean;
  readonly isBusy?: boolean | undefined;
  readonly onClick?: () => void;
}

/**
 * A button that may be off, and does nothing then. Not `disabled`: a browser takes the focus from such a one, and whoever
 * has pressed it by the keyboard would begin at the top of the page again.
 */
export function Button({ children, label, isMain, isSubmit, isOff, isBusy, onClick }: ButtonProps): JSX.Element {
  return (
    <button
      type={isSubmit === true ? "submit" : "button"}
      class={isMain === true ? "main" : undefined}
      aria-label={label}
      aria-busy={isBusy}
      aria-disabled={isOff}
      onClick={(event) => {
        if (isOff) event.preventDefault();
        else onClick?.();
      }}
    >
      {children}
    </button>
  );
}

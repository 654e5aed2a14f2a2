"""Operations on a whole database."""

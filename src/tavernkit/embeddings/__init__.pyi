from tavernkit.embeddings.embedder import Embedder as Embedder
from tavernkit.embeddings.embedder import LocalEmbedder as LocalEmbedder
from tavernkit.embeddings.embedder import OpenAIEmbedder as OpenAIEmbedder
from tavernkit.embeddings.index import IndexItem as IndexItem
from tavernkit.embeddings.index import Match as Match
from tavernkit.embeddings.index import VectorIndex as VectorIndex

__all__: list[str]
